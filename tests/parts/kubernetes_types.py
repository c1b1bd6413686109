"""Whether an object is as the Kubernetes API takes it: its published types (the package kubernetes-validate holds the OpenAPI schemas of
many releases, in which a field that is not known is an error), and the rules of batch/v1 and core/v1 that no schema says."""

import re
from functools import cache
from typing import Any

import jsonschema
from kubernetes_validate.utils import all_versions, schema_contents
from referencing import Registry, Resource

LATEST = all_versions()[-1]
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@cache
def _validator(kind: str, api_version: str, version: str) -> Any:
    folder = f"kubernetes-json-schema/v{version}-local-strict"
    group = "meta-v1" if kind == "DeleteOptions" else re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    schema = schema_contents(f"{folder}/{kind.lower()}-{group}.json", version)
    known = [Resource.from_contents(schema), _definitions(version)]
    return jsonschema.Draft202012Validator(schema, registry=known @ Registry())


@cache
def _definitions(version: str) -> Any:
    return Resource.from_contents(schema_contents(f"kubernetes-json-schema/v{version}-local-strict/_definitions.json", version))


def problems(data: Any, version: str = LATEST) -> list[str]:
    """What is wrong with it; [] where nothing is."""
    if not isinstance(data, dict) or not data.get("kind") or not data.get("apiVersion"):
        return ["no kind or apiVersion"]
    errors = _validator(data["kind"], data["apiVersion"], version).iter_errors(data)
    found = [f"{'.'.join(map(str, one.absolute_path))}: {one.message[:200]}" for one in errors]
    found += [f"{path}: null" for path, value in _leaves(data, "") if value is None]
    if found:
        return found
    found += _metadata(data["metadata"]) if "metadata" in data else []
    if data["kind"] == "Job":
        found += _job(data)
    if data["kind"] in ("Pod", "DaemonSet"):
        pod = data["spec"] if data["kind"] == "Pod" else data["spec"]["template"]["spec"]
        found += _pod(pod)
    return found


def _leaves(data: Any, path: str) -> Any:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _leaves(value, f"{path}.{key}")
    elif isinstance(data, list):
        for place, value in enumerate(data):
            yield from _leaves(value, f"{path}[{place}]")
    else:
        yield path, data


def _metadata(data: dict[str, Any]) -> list[str]:
    found = []
    name = data.get("name", "")
    if not _NAME.fullmatch(name) or len(name) > 253:
        found.append(f"metadata.name: {name!r}")
    for key, value in data.get("labels", {}).items():
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            found.append(f"label {key}={value!r}")
    found += [f"annotation {key}" for key in data.get("annotations", {}) if not _KEY.fullmatch(key)]
    if sum(len(k) + len(v.encode()) for k, v in data.get("annotations", {}).items()) > 256 << 10:
        found.append("annotations: more than 256 KiB")
    return found


def _job(data: dict[str, Any]) -> list[str]:
    spec, name = data["spec"], data["metadata"]["name"]
    pod = spec["template"]["spec"]
    found = _pod(pod) + _metadata({"name": "x", **spec["template"].get("metadata", {})})
    indexed = spec.get("completionMode") == "Indexed"
    longest = len(name) + (len(str(spec.get("completions", 1) - 1)) + 1 if indexed else 0)
    if longest > 63:
        found.append(f"name: its pods' hostname would have {longest} characters")
    if indexed and ("completions" not in spec or spec.get("parallelism", 1) > 100_000):
        found.append("Indexed: completions and parallelism")
    if spec.get("completions", 0) > 100_000 and "maxFailedIndexes" not in spec:
        found.append("maxFailedIndexes")
    if "backoffLimitPerIndex" in spec and (not indexed or pod["restartPolicy"] != "Never"):
        found.append("backoffLimitPerIndex: of indexed Jobs that restart Never")
    for key in ("backoffLimit", "backoffLimitPerIndex", "ttlSecondsAfterFinished", "parallelism", "completions"):
        if not 0 <= spec.get(key, 0) < 1 << 31:
            found.append(key)
    if pod.get("restartPolicy") not in ("Never", "OnFailure"):
        found.append("restartPolicy")
    names = {one["name"] for one in pod["containers"]}
    for rule in spec.get("podFailurePolicy", {}).get("rules", []):
        found += _rule(rule, names, "backoffLimitPerIndex" in spec)
    if "podFailurePolicy" in spec and pod["restartPolicy"] != "Never":
        found.append("podFailurePolicy: restartPolicy Never")
    return found


def _rule(rule: dict[str, Any], containers: set[str], by_index: bool) -> list[str]:
    found = []
    if len({"onExitCodes", "onPodConditions"} & rule.keys()) != 1:
        found.append("rule: one of onExitCodes and onPodConditions")
    if rule["action"] not in ("FailJob", "Ignore", "Count", "FailIndex") or (rule["action"] == "FailIndex" and not by_index):
        found.append(f"rule: action {rule['action']}")
    if codes := rule.get("onExitCodes"):
        values, operator = codes["values"], codes["operator"]
        if values != sorted(set(values)) or not values or (operator == "In" and 0 in values) or operator not in ("In", "NotIn"):
            found.append("rule: values")
        if codes.get("containerName") not in {None, *containers}:
            found.append("rule: containerName")
    for pattern in rule.get("onPodConditions", []):
        if pattern.get("status") not in ("True", "False", "Unknown"):
            found.append("rule: status")
    return found


def _pod(pod: dict[str, Any]) -> list[str]:
    found = []
    volumes = [one["name"] for one in pod.get("volumes", [])]
    if len(set(volumes)) != len(volumes) or not all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", one) for one in volumes):
        found.append("volumes: names")
    if not 0 <= pod.get("terminationGracePeriodSeconds", 30) < 1 << 63 or not 1 <= pod.get("activeDeadlineSeconds", 1) < 1 << 31:
        found.append("seconds")
    for container in pod["containers"]:
        mounts = [one["mountPath"] for one in container.get("volumeMounts", [])]
        if len(set(mounts)) != len(mounts) or {one["name"] for one in container.get("volumeMounts", [])} - set(volumes):
            found.append("volumeMounts")
        if not container.get("image") or container["image"].strip() != container["image"]:
            found.append("image")
        resources = container.get("resources", {})
        for key, value in resources.get("limits", {}).items():
            if "/" in key and (not str(value).isdigit() or resources.get("requests", {}).get(key, value) != value):
                found.append(f"limits: {key}")
        for key, value in resources.get("requests", {}).items():
            if "/" in key and resources.get("limits", {}).get(key) != value:
                found.append(f"requests: {key}")
        for one in container.get("env", []):
            if not re.fullmatch(r"[ -<>-~]+", one["name"]) or ("value" in one and "valueFrom" in one):
                found.append(f"env: {one['name']!r}")
    for one in pod.get("tolerations", []):
        effect = one.get("effect", "NoSchedule")
        if (one.get("operator") == "Exists" and one.get("value")) or effect not in ("NoSchedule", "NoExecute", "PreferNoSchedule"):
            found.append("tolerations")
    wanted = pod.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = wanted.get("nodeSelectorTerms")
    if terms is not None and not terms:
        found.append("nodeSelectorTerms: none")
    for term in terms or []:
        for wish in term["matchExpressions"]:
            values = wish.get("values", [])
            alone = wish["operator"] in ("Gt", "Lt")
            if (alone and (len(values) != 1 or not re.fullmatch(r"-?\d+", values[0]))) or not values or not _KEY.fullmatch(wish["key"]):
                found.append(f"matchExpressions: {wish}")
            if wish["operator"] not in ("In", "NotIn", "Gt", "Lt") or not all(_VALUE.fullmatch(value) for value in values):
                found.append(f"matchExpressions: {wish}")
    return found


def expanded(word: str, variables: dict[str, str]) -> str:
    """What Kubernetes makes of a word of a command or a variable's value: $(NAME) is replaced where it is known, $$ becomes $.

    By the rules of https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/.
    """
    found, place = "", 0
    while place < len(word):
        if word[place] != "$" or place + 1 == len(word):
            found += word[place]
            place += 1
        elif word[place + 1] == "$":
            found, place = found + "$", place + 2
        elif word[place + 1] == "(" and (end := word.find(")", place)) >= 0:
            name = word[place + 2 : end]
            found += variables.get(name, f"$({name})")
            place = end + 1
        else:
            found += "$" + word[place + 1]
            place += 2
    return found
