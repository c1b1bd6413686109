import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "UserWarning: called a synchronizing CUDA operation (Triggered internally at "
        "../c10/cuda/CUDAFunctions.cpp:149.)",
        "WARNING:tensorflow:Callback method `on_train_batch_end` is slow compared to the batch time (batch "
        "time: 0.0061s vs `on_train_batch_end` time: 0.1270s). Check your callbacks.",
        "aten::item         12.3%      1.2s   55.10%",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "sync-in-hot-loop"
