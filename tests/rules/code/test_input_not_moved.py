import pytest
from asking import slugs


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the "
        "same",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cpu! (when checking argument for argument index in method wrapper_CUDA__index_select)",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cpu! (when checking argument for argument mat1 in method wrapper_addmm)",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 "
        "and cpu! (when checking argument for argument target in method wrapper_CUDA_nll_loss_forward)",
        "RuntimeError: Expected object of backend CUDA but got backend CPU for argument #2 'target'",
        "RuntimeError: Expected object of device type cuda but got device type cpu for argument #3 'index' "
        "in call to _th_index_select",
        "RuntimeError: Tensor for argument #2 'mat1' is on CPU, but expected it to be on GPU (while checking "
        "arguments for addmm)",
        "RuntimeError: Input and parameter tensors are not at the same device, found input tensor at cpu and "
        "parameter tensor at cuda:0",
        "RuntimeError: Expected object of type torch.cuda.LongTensor but found type torch.LongTensor for "
        "argument #3 'index'",
        'dgl._ffi.base.DGLError: Cannot assign node feature "h" on device cpu to a graph on device cuda:0. '
        "Call DGLGraph.to() to copy the graph to the same device.",
    ],
)
def test_found(text: str) -> None:
    assert slugs(text)[0] == "input-not-moved"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be "
        "the same",
    ],
)
def test_neighbours(text: str) -> None:
    assert "input-not-moved" not in slugs(text)
