# ruff: noqa: E501  printed lines stand in one piece
import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        '$ docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility jrottenberg/ffmpeg -c:v h264_nvenc\n[h264_cuvid @ 0x1] Cannot load libnvcuvid.so.1',
        'FROM nvidia/cuda:12.1.0-base\nENV NVIDIA_DRIVER_CAPABILITIES=utility\nRUN true\n\nRuntimeError: Found no NVIDIA driver on your system.',
    ],
)
def test_is_it(text: str) -> None:
    assert slugs(text)[0] == "driver-capabilities-missing"


@pytest.mark.parametrize(
    "text",
    [
        '$ docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=all x ffmpeg\n[h264_cuvid @ 0x1] Cannot load libnvcuvid.so.1',
        'NVIDIA_DRIVER_CAPABILITIES=compute,utility\n',
    ],
)
def test_is_not_it(text: str) -> None:
    assert "driver-capabilities-missing" not in slugs(text)
