"""The words and units of the dry run's answer, in both languages."""
# ruff: noqa: E501  (the two languages stand side by side)

import re

from ongpu.facts.dryrun_parts import Aside

NOTES = {
    "heading": ("{script} on a pretended {card}: no GPU was used", "{script} 在假想的 {card} 上运行：没有使用真实 GPU"),
    "run": ("run", "运行"),
    "outcome-finished": ("it ran to its end", "脚本运行结束"),
    "outcome-stopped": ("it ran, and was stopped after enough steps", "可以运行；步数已够，停止观察"),
    "outcome-stopped-batches": ("it ran, and was stopped after enough batches", "可以运行；批次已够，停止观察"),
    "outcome-stopped-cpu-only": ("stopped: it computes on the CPU only", "已停止：它只在 CPU 上计算"),
    "outcome-error": ("IT FAILS", "会失败"),
    "outcome-timeout": ("stopped at the time limit", "到达时间上限，已停止"),
    "outcome-unsupported": ("could not be followed to its end", "无法完整跟踪"),
    "outcome-crashed": ("the dry run itself failed (a bug of ongpu, please report it)", "试运行自身失败（ongpu 的缺陷，请反馈）"),
    "outcome-oom": ("IT FAILS in step {step}: the card is full", "第 {step} 步失败：显存已满"),
    "outcome-oom-further": ("IT FAILS in step {step}; followed further as if memory were enough", "第 {step} 步失败；之后按显存足够继续观察"),
    "outcome-arguments": ("it wants arguments (write them after the script)", "脚本需要参数（写在脚本名之后）"),
    "missed": ("not reached", "未执行到"),
    "missed-one": ("{part} (line {line})", "{part}（第 {line} 行）"),
    "missed-told": ("{names}; what is said of such lines comes from the source", "{names}；关于这些行的结论只来自源代码"),
    "clear-so-far": ("What was run is as it should be; of what was not reached (see above) this says nothing.", "执行过的部分均正常；未执行到的部分（见上）不在此结论之内。"),
    "parameters": ("{number} parameters", "{number} 个参数"),
    "not-computed": ("not computed", "未计算"),
    "no repeated blocks were found in the model": ("no repeated blocks were found in the model", "模型里没有找到重复的模块"),
    "saving-fp16-autocast": ("autocast to float16, with torch.amp.GradScaler", "float16 autocast，配合 torch.amp.GradScaler"),
    "batches-one": (", {batches} batch of {rows}", "，{batches} 个批次（每批 {rows}）"),
    "counts-one": (": {steps} optimizer step{batches}, in {seconds} s", "：{steps} 个优化步{batches}，用时 {seconds} 秒"),
    "counts": (": {steps} optimizer steps{batches}, in {seconds} s", "：{steps} 个优化步{batches}，用时 {seconds} 秒"),
    "batches": (", {batches} batches of {rows}", "，{batches} 个批次（每批 {rows}）"),
    "at": ("at", "位置"),
    "error": ("error", "报错"),
    "optimizer": ("optimizer {class_}", "优化器 {class_}"),
    "data": ("data", "数据"),
    "nothing-gpu": ("nothing was computed on it", "没有在上面计算任何东西"),
    "nothing-cpu": ("nothing heavy", "没有繁重的计算"),
    "memory": ("Memory of the GPU ({total})", "GPU 显存（{total}）"),
    "peak": ("peak", "峰值"),
    "peak-told": ("{reserved} reserved, {allocated} of it in use; with the context ({context}) {all}", "保留 {reserved}，其中已用 {allocated}；加上上下文（{context}）共 {all}"),
    "kind-weight": ("weights", "权重"),
    "kind-buffer": ("buffers", "缓冲区"),
    "kind-gradient": ("gradients", "梯度"),
    "kind-optimizer_state": ("optimizer state", "优化器状态"),
    "kind-activation": ("activations", "激活"),
    "kind-input": ("inputs", "输入"),
    "kind-temporary": ("temporaries", "临时张量"),
    "kind-workspace": ("library workspaces", "库的工作区"),
    "kind-other": ("other", "其他"),
    "set-by": ("set by", "出现于"),
    "held-by": ("held by", "占用最多"),
    "phase-forward": ("forward", "前向"),
    "phase-backward": ("backward", "反向"),
    "phase-optimizer": ("optimizer step", "优化步"),
    "phase-other": ("outside a step", "步外"),
    "fragments": ("unused reserve", "保留未用"),
    "fragments-told": ("{idle}; {share} % fragmentation when most was reserved", "{idle}；保留最多时碎片率 {share} %"),
    "growth": ("grows", "增长"),
    "growth-told": ("by {growth} with every step", "每步增加 {growth}"),
    "fit": ("fits", "是否放得下"),
    "fits": ("yes: {left} of {card} are left", "放得下：{card} 还剩 {left}"),
    "fits-not": ("NO: {card} is full", "放不下：{card} 显存已满"),
    "fits-a-while": ("but it grows with every step: full after about {steps} more", "但每步都在增长：约再过 {steps} 步就会占满"),
    "fits-short": ("fits", "放得下"),
    "fits-not-short": ("does not fit", "放不下"),
    "smallest": ("smallest card", "最小可用的卡"),
    "smallest-none": ("none of those we know", "已知的卡都放不下"),
    "batch": ("Batch size", "batch 大小"),
    "largest": ("largest that fits", "最大可用"),
    "largest-none": ("not even one row fits", "一条都放不下"),
    "largest-unknown": ("could not be told: {why}", "无法判断：{why}"),
    "verified": ("run at this size", "已按此大小试运行"),
    "computed": ("computed from the sizes tried", "由试过的大小推算"),
    "as-run": ("as in the script", "脚本中的值"),
    "accumulate": ("same effective batch", "等效 batch"),
    "accumulate-told": ("{windows} windows of {rows} rows, the loss divided by {windows}", "{windows} 个小批，每个 {rows} 条，损失除以 {windows}"),
    "per-row": ("memory", "显存"),
    "per-row-told": ("{row} a row, {fixed} whatever the batch", "每条 {row}，固定部分 {fixed}"),
    "tried": ("tried", "试过"),
    "savings": ("What would save memory (computed)", "可以节省多少显存（计算得出）"),
    "saving-checkpointing": ("activation checkpointing (computes the forward pass twice)", "激活检查点（前向要算两遍）"),
    "saving-bf16-autocast": ("autocast to bfloat16", "bfloat16 autocast"),
    "saving-adam-8bit": ("8-bit optimizer states", "8 位优化器状态"),
    "saving-set-to-none": ("zero_grad(set_to_none=True)", "zero_grad(set_to_none=True)"),
    "saving-half-sequence": ("half the sequence length", "序列长度减半"),
    "syncs": ("Python waits for the GPU", "Python 等待 GPU"),
    "copies": ("Copies between host and GPU", "主机与 GPU 之间的拷贝"),
    "to-gpu": ("to the GPU", "到 GPU"),
    "to-cpu": ("to the host", "到主机"),
    "pinned": ("pinned", "锁页"),
    "pageable": ("not pinned", "未锁页"),
    "non-blocking": ("non_blocking", "non_blocking"),
    "per-step": ("{number} a step", "每步 {number} 次"),
    "in-all": ("{number} in all", "共 {number} 次"),
    "loaders": ("Data loaders", "数据加载器"),
    "loader-wait": ("{milliseconds} ms a batch on this machine", "在本机每批 {milliseconds} 毫秒"),
    "loader-unused": ("not read", "没有读取"),
    "accumulation": ("Gradient accumulation, as executed", "梯度累积（实际执行）"),
    "windows": ("backwards a step", "每步反向次数"),
    "windows-told": ("{sizes}; the loss is {scaled}", "{sizes}；损失{scaled}"),
    "scaled": ("divided", "已除以步数"),
    "unscaled": ("NOT divided", "没有除以步数"),
    "scaled-unknown": ("perhaps divided: it cannot be told", "是否除以步数无法判断"),
    "dropped": ("dropped", "丢弃"),
    "dropped-told": ("the last {number} backward passes are followed by no step", "最后 {number} 次反向之后没有优化步"),
    "ranks": ("Ranks", "各 rank"),
    "rank-told": ("{steps} steps, {memory} reserved", "{steps} 步，保留 {memory}"),
    "no-device": ("no GPU", "没有 GPU"),
    "mismatch": ("collective {index}", "第 {index} 次集合通信"),
    "doubts": ("Assumed, approximated, not followed", "假设、近似与未跟踪的部分"),
    "not-followed": ("not followed", "未能跟踪"),
    "went-on": ("not followed, went on", "未跟踪，继续运行"),
    "assumed": ("assumed", "假设"),
    "branched": (" (the script decides by it)", "（脚本据此分支）"),
    "indices": ("out of range", "越界"),
    "allowed": ("allowed", "允许"),
    "note": ("note", "说明"),
    "file": ("file", "文件"),
    "refused": ("not written (sandbox)", "未写入（沙盒）"),
    "redirected": ("saved to a temporary folder", "已改存到临时目录"),
    "written": ("written by the script", "由脚本写入"),
    "no-context": ("the CUDA context was counted as nothing", "CUDA 上下文按零计"),
}  # fmt: skip
# Notes of the child: what to look for in its English text, and the Chinese for it. Others stay as they are.
_ZH = {
    "compile-skipped": ("", "torch.compile 被跳过：显存和时间是普通（eager）模型的"),
    "save-redirected": (r"not to (.+)", r"torch.save 写到了临时目录，而不是 {0}"),
    "cpu-only": (r"more than (\d+) GFLOP", "CPU 上已执行超过 {0} GFLOP 的矩阵运算，GPU 上没有任何运算：已停止"),
    "gpu-never-used": ("", "没有任何运算在 GPU 上执行"),
    "attention-kernel": (r"as the (\w+) kernel", "scaled_dot_product_attention 按 {0} kernel 运行"),
    "time-not-simulated": ("", "不模拟 CUDA event 之间的时间：一律回答 1 毫秒"),
    "ranks-not-run": (r"only rank (\d+) of (\d+)", "{1} 个 rank 中只跟踪了 rank {0}"),
    "comm-hook-skipped": ("", "没有运行 DistributedDataParallel 的通信钩子"),
    "sandbox-refused": (r"(.+)", "沙盒拒绝：{0}"),
}


def word(name: str, lang: str, **values: object) -> str:
    """A phrase of the answer, filled."""
    return NOTES[name][lang == "zh"].format(**values) if name in NOTES else name


def note(aside: Aside, lang: str) -> str:
    """What the dry run remarks, in the reader's language as far as we have it."""
    pattern, chinese = _ZH.get(aside.note, ("", ""))
    found = re.search(pattern, aside.text) if chinese and lang == "zh" else None
    return chinese.format(*found.groups()) if found else aside.text or aside.note


_REASONS = (
    (r"the dry run itself failed(?:: (.*))?", "试运行自身失败：{0}"),
    (r"the script reads back what it saved, of which the dry run kept no data: (.*)", "脚本读回它保存的内容，而试运行没有保留数据：{0}"),
    (r"it stops with (.*)", "脚本因 {0} 停止"),
    (r"the script wants arguments: (.*)", "脚本需要参数：{0}"),
    (r"(\S+) steps? ended within the time limit \((\d+) s\)", "时限（{1} 秒）内没有完成足够的步数"),
    (r"no model was run: nothing was computed on the GPU, and nothing heavy on the CPU", "没有运行模型：GPU 上没有任何计算，CPU 上也没有繁重的计算"),
)


def reason(text: str, lang: str) -> str:
    """Why it cannot be told whether the script runs and fits, in the reader's language."""
    head, colon, why = text.partition(": ")
    if lang != "zh" or head != "whether it runs and fits" or not colon:
        return text
    for pattern, chinese in _REASONS:
        found = re.fullmatch(pattern, why, re.DOTALL)
        if found:
            return "能否运行、能否放下：" + chinese.format(*(group or "" for group in found.groups()))
    return text


def work(flop: float) -> str:
    """Matrix work as people read it."""
    for unit, scale in (("PFLOP", 1e15), ("TFLOP", 1e12), ("GFLOP", 1e9), ("MFLOP", 1e6)):
        if flop >= scale:
            return f"{flop / scale:.3g} {unit}"
    return f"{flop:.0f} FLOP"
