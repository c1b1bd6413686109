# expect: clear
# options: --steps 10
# ruff: noqa
"""The old torch.cuda.amp names, a prefetcher on a side stream, CUDA events for timing, cudnn.benchmark."""
import torch
from torch import nn

torch.backends.cudnn.benchmark = True


class Prefetcher:
    def __init__(self, batches):
        self.batches, self.stream = iter(batches), torch.cuda.Stream()
        self.preload()

    def preload(self):
        try:
            self.next_x, self.next_y = next(self.batches)
        except StopIteration:
            self.next_x = None
            return
        with torch.cuda.stream(self.stream):
            self.next_x = self.next_x.cuda(non_blocking=True)
            self.next_y = self.next_y.cuda(non_blocking=True)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        x, y = self.next_x, self.next_y
        if x is not None:
            x.record_stream(torch.cuda.current_stream())
            self.preload()
        return x, y


model = nn.Sequential(nn.Conv2d(3, 24, 3), nn.BatchNorm2d(24), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(24 * 15 * 15, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
scaler = torch.cuda.amp.GradScaler()
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
prefetcher = Prefetcher((torch.randn(16, 3, 32, 32).pin_memory(), torch.randint(0, 10, (16,)).pin_memory()) for _ in range(6))
x, y = prefetcher.next()
start.record()
while x is not None:
    with torch.cuda.amp.autocast():
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    x, y = prefetcher.next()
end.record()
torch.cuda.synchronize()
print(f"{start.elapsed_time(end):.1f} ms, {torch.cuda.get_device_name(0)}, {torch.cuda.memory_allocated() / 1e6:.0f} MB")
