from asking import explain, slugs

from ongpu.model import Certainty, Severity

RACE = """========= COMPUTE-SANITIZER
========= {level}: Race reported between Write access at {kernel}+0x90 in k.cu:52 and Read access at {kernel}+0x40 in k.cu:53 [124 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
ONE = """========= COMPUTE-SANITIZER
========= {head}
=========     at {at}
=========
========= ERROR SUMMARY: 1 error
"""


def test_a_race() -> None:
    finding = explain(RACE.format(level="Error", kernel="reduce(float *)")).findings[0]
    assert (finding.slug, finding.weight, finding.certainty) == ("kernel-undefined-behaviour", Severity.ERROR, Certainty.CERTAIN)
    assert (finding.values["kernel"], finding.values["what"], finding.values["place"]) == ("reduce", "write / read", "k.cu:52")


def test_a_warning_or_a_library_weighs_less() -> None:
    assert slugs(RACE.format(level="Warning", kernel="reduce(float *)")) == []
    finding = explain(RACE.format(level="Error", kernel="void at::native::reduce_kernel<512>(float *)")).findings[0]
    assert (finding.weight, finding.certainty) == (Severity.WARNING, Certainty.POSSIBLE)


def test_a_barrier_that_not_all_threads_reach() -> None:
    text = ONE.format(head="Barrier error detected. Divergent thread(s) in block.", at="sync_kernel(int *)+0xa0 in s.cu:61")
    finding = explain(text).findings[0]
    assert (finding.slug, finding.variant, finding.values["what"]) == (
        "kernel-undefined-behaviour",
        "barrier",
        "Divergent thread(s) in block",
    )


def test_memory_that_nobody_wrote() -> None:
    text = ONE.format(head="Uninitialized __global__ memory read of size 4 bytes", at="add(float *)+0x130 in k.cu:8")
    assert slugs(text) == ["kernel-undefined-behaviour"]
    assert explain(text).findings[0].variant == "uninitialized"


def test_an_access_error_alone_is_another_rules_business() -> None:
    text = "========= COMPUTE-SANITIZER\n========= Invalid __global__ write of size 4 bytes\n=========     at k(int *)+0x1 in k.cu:8\n"
    assert "kernel-undefined-behaviour" not in slugs(text)


def test_two_streams_that_do_not_wait_for_each_other() -> None:
    text = """CSAN detected a possible data race on tensor with data pointer 139719969079296
Access by stream 94646435460352 during kernel:
aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
writing to argument(s) self, out, and to the output
With stack trace:
  File "example_error.py", line 6, in <module>
    torch.mul(a, 5, out=a)

Previous access by stream 0 during kernel:
aten::rand(int[] size, *, int? dtype=None, Device? device=None) -> Tensor
writing to the output
"""
    finding = explain(text).findings[0]
    assert (finding.slug, finding.variant, finding.weight) == ("kernel-undefined-behaviour", "streams", Severity.ERROR)
    values = finding.values
    assert (values["kernel"], values["host"], values["place"]) == ("aten::mul.out", "aten::rand", "example_error.py:6")
