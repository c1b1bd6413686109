import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n"
        "   D\\D     0      1\n"
        "     0 673.20  13.15\n"
        "     1  12.99 673.20\n"
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n"
        "   D\\D     0      1\n"
        "     0 673.49   2.60\n"
        "     1   2.12 672.33",
        "NCCL all_reduce_perf hangs on 4x RTX 4090\n"
        "$ sudo lspci -vvv | grep ACSCtl\n"
        "\t\tACSCtl: SrcValid+ TransBlk- ReqRedir+",
        "nvidia 0000:0a:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x001a address=0xc0000000 flags=0x0020]",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[:1] == ["iommu-acs"]


@pytest.mark.parametrize(
    "text",
    [
        "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n"
        "     0 673.20  13.15\n"
        "     1  12.99 673.20\n"
        "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n"
        "     0 673.49  52.60\n"
        "     1  52.12 672.33",
        "DMAR: IOMMU enabled",
    ],
)
def test_neighbours_are_not_it(text: str) -> None:
    assert "iommu-acs" not in slugs(text)


ACS = "$ sudo lspci -vvv | grep -i acsctl\n\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir{} CmpltRedir{} UpstreamFwd+ EgressCtrl- DirectTrans-\n"
TOPO = "$ nvidia-smi topo -m\n\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \t{}\t0-31\nGPU1\t{}\t X \t0-31\n"


@pytest.mark.parametrize(("redirect", "link", "found"), [("+", "PHB", True), ("-", "PHB", False), ("+", "NV12", False)])
def test_acs_on_the_bridges_between_cards(redirect: str, link: str, found: bool) -> None:
    assert ("iommu-acs" in slugs(ACS.format(redirect, redirect), TOPO.format(link, link))) is found
