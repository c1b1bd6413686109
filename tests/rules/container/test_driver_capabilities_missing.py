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


def test_a_video_library_that_cannot_be_loaded_where_nobody_tells_of_a_container() -> None:
    lost = "[hevc_nvenc @ 0x55] Cannot load libnvidia-encode.so.1\n[hevc_nvenc @ 0x55] The minimum required Nvidia driver for nvenc is (unknown) or newer"
    assert slugs(lost) == ["driver-capabilities-missing"]
    old = "[h264_nvenc @ 0x1] Driver does not support the required nvenc API version. Required: 12.1 Found: 11.1\nThe minimum required Nvidia driver for nvenc is 530.41.03 or newer"
    windows = "[h264_nvenc @ 0001] Cannot load nvEncodeAPI64.dll\nThe minimum required Nvidia driver for nvenc is (unknown) or newer"
    sessions = "[h264_nvenc @ 0x55] OpenEncodeSessionEx failed: out of memory (10): (no details)"
    assert not any("driver-capabilities-missing" in slugs(text) for text in (old, windows, sessions))
