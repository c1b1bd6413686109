"""The program waits for the GPU at every step."""

import re
from collections.abc import Iterator

from ongpu.facts.code import Traceback
from ongpu.facts.symptoms import Symptoms
from ongpu.model import Certainty, Finding, Layer, Rule, Severity, Text


def check(symptoms: Symptoms, traceback: Traceback | None) -> Iterator[Finding]:
    warned = symptoms.cite("sync-debug", most=2)
    callback = symptoms.cite("sync-callback", most=2)
    profile = [h for h in symptoms.seen("sync-profile") if 25 <= float(h.groups.get("share", "0")) <= 100]
    profile += [h for h in symptoms.seen("py-spy-sync") if 25 <= float(h.groups["share"]) <= 100]
    failed = traceback is not None and any(r.error for r in traceback.raised)
    code = symptoms.cite("sync-code", "sync-line", most=3) if symptoms.has("slow-words", "sync-told", "gpu-idles-told") and not failed else ()
    plain = bool(code) or symptoms.has("diff-drops-sync") or any(re.search("slow|idle|stall|faster|慢", r.quote) for r in symptoms.cite("item-each-step"))
    told = symptoms.cite("sync-told", "item-each-step", most=2) if not failed else ()
    if told and (symptoms.has("item-each-step", "sync-code", "sync-line") or symptoms.has("slow-words")):
        code = (*told, *code)
    removed = symptoms.cite("diff-drops-sync", most=2)
    if code or removed:
        code = (*removed, *code)
    if not (warned or callback or profile or code):
        return
    what = profile[0].groups.get("what") if profile else symptoms.value("what", "sync-callback" if callback else "sync-code")
    yield Finding(
        certainty=Certainty.LIKELY if warned or profile or callback or (code and not failed and (plain or symptoms.has("sync-told"))) else Certainty.POSSIBLE,
        severity=Severity.NOTE if failed else None,
        variant="profile" if profile else "callback" if callback else "",
        values={"what": what or ".item(), .cpu() or a copy", "share": profile[0].groups["share"] if profile else "?"},
        refs=(*warned, *callback, *(h.ref for h in profile[:3]), *code),
    )


RULE = Rule(
    slug="sync-in-hot-loop",
    layer=Layer.CODE,
    severity=Severity.WARNING,
    check=check,
    see=("https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html", "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",),
    en=Text(
        title="The program waits for the GPU in its hot loop ({what})",
        why="The GPU works asynchronously; .item(), .cpu(), .tolist(), printing a tensor, torch.cuda.synchronize(), empty_cache() or CUDA_LAUNCH_BLOCKING=1 make Python wait until everything queued is done, so the GPU is idle until the next launch.",
        fix="Read the loss only every N steps (loss.item() inside the logging branch), keep sums on the GPU (total += loss.detach()), drop synchronize() and empty_cache() from the loop, unset CUDA_LAUNCH_BLOCKING and anomaly detection. torch.cuda.set_sync_debug_mode('warn') shows each place. Measure: it may gain little where steps are long.",
    ),
    zh=Text(
        title="程序在热循环里等待 GPU（{what}）",
        why="GPU 异步工作；.item()、.cpu()、.tolist()、打印张量、torch.cuda.synchronize()、empty_cache() 或 CUDA_LAUNCH_BLOCKING=1 会让 Python 等到队列全部完成，GPU 在下一次发射前空闲。",
        fix="每 N 步才读一次损失（在打日志的分支里 loss.item()），求和留在 GPU 上（total += loss.detach()），循环里去掉 synchronize() 和 empty_cache()，取消 CUDA_LAUNCH_BLOCKING 和异常检测。torch.cuda.set_sync_debug_mode('warn') 会指出每一处。请实测：单步较长时收益可能不大。",
    ),
    variants={
        "profile": (
            Text(
                title="{share} % of the profile is waiting: {what}",
                why="aten::item, _local_scalar_dense, cudaStreamSynchronize and copies to the host are points where Python waits for the GPU. A large share in the host's time means a sync at every step (it can also be the normal place where the host waits for a GPU that is busy: compare with the GPU's own time).",
                fix="Read values (.item(), .cpu(), print) only every N steps, use non_blocking=True copies from pinned memory, and keep decisions on the GPU (torch.where instead of if tensor).",
            ),
            Text(
                title="性能分析中 {share} % 是等待：{what}",
                why="aten::item、_local_scalar_dense、cudaStreamSynchronize 和向主机的拷贝，都是 Python 等待 GPU 的地方。主机时间中占比大说明每步都在同步（也可能只是主机在等繁忙的 GPU：要和 GPU 自身的时间对比）。",
                fix="每 N 步才读取数值（.item()、.cpu()、print），从锁页内存拷贝时用 non_blocking=True，判断留在 GPU 上（用 torch.where 代替 if 张量）。",
            ),
        ),
        "callback": (
            Text(
                title="A callback is slower than the training step itself ({what})",
                why="Keras measured that its callback takes longer than the batch; it usually reads tensors back, logs or writes files at each batch.",
                fix="Log every N batches (update_freq='epoch' for TensorBoard), avoid .numpy() in on_train_batch_end, and raise steps_per_execution in compile().",
            ),
            Text(
                title="回调比训练步本身还慢（{what}）",
                why="Keras 测得回调耗时超过一个 batch；通常是每个 batch 都在读回张量、记录日志或写文件。",
                fix="每 N 个 batch 记录一次（TensorBoard 用 update_freq='epoch'），不要在 on_train_batch_end 中用 .numpy()，并在 compile() 中提高 steps_per_execution。",
            ),
        ),
    },
)
