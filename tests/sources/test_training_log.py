from hypothesis import given, settings
from hypothesis import strategies as st

from ongpu.facts.code import TrainingLog
from ongpu.model import Evidence
from ongpu.sources import training_log


def read(text: str) -> list[TrainingLog]:
    return [fact for fact in training_log.read(Evidence("pasted", text, "p")) if isinstance(fact, TrainingLog)]


PIECES = ["Epoch: [0][1/2] ", "Time 1.0 (2.0) ", "Data 0.5 (0.1) ", "3.2s/it ", "0it/s", "loss ", "allocated 5 GiB", "\n"]


def test_speeds_of_several_programs() -> None:
    told = {
        "Epoch: [0][10/5005]\tTime 22.424 (7.498)\tData 22.372 (7.070)\tLoss 6.9065 (6.9074)": (22.424, 22.372),
        "mmdet - INFO - Epoch [1][50/7330] lr: 1e-03, eta: 1 day, time: 1.234, data_time: 0.987, memory: 5432, loss: 2.1": (1.234, 0.987),
        "  8%|8         | 480/6000 [26:10<5:01:03,  3.27s/it, loss: 0.1]": (3.27, None),
        "Epoch: [0] | (112/1667) Data: 2.871s | Batch: 3.204s | Loss: 41.2204": (3.204, 2.871),
        "step 132  loss 0.377  9.84 s": (9.84, None),
    }
    for text, (seconds, data) in told.items():
        speed = read(text)[0].speeds[0]
        assert (speed.seconds, speed.data_seconds) == (seconds, data)


def test_memory_and_accumulation() -> None:
    assert read("epoch 1 done, allocated 2.1 GiB")[0].speeds[0].memory_gib == 2.1
    fact = read("len(train_dataloader) = 250, gradient_accumulation_steps = 16\nepoch 0: 15 optimizer steps")[0]
    assert (fact.batches, fact.accumulation, fact.optimizer_steps) == (250, 16, 15)


def test_the_trainers_announcement() -> None:
    text = (
        "  Num examples = 209\n  Num Epochs = 50\n  Total train batch size (w. parallel, distributed & accumulation) = 32\n"
        "  Gradient Accumulation steps = 4\n  Total optimization steps = 350\n"
    )
    fact = read(text)[0]
    assert (fact.batches, fact.accumulation, fact.optimizer_steps, fact.epochs) == (27, 4, 350, 50)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.text(max_size=300) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_no_text_makes_it_crash(text: str) -> None:
    training_log.looks_like(Evidence("pasted", text, "p")) if hasattr(training_log, "looks_like") else None
    read(text)
