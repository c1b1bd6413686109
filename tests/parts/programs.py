"""Beginnings of training scripts, for the tests of rules that read source."""

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from tqdm import tqdm
from data import dataset, val_set

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.fc = nn.Linear(d, 10)

    def forward(self, x):
        return self.fc(x)


"""

TRAINED = HEAD + """\
model = Net().to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(dataset, batch_size=32, shuffle=True, num_workers=4)
"""

# Shorter ones, to be joined: START + MODEL + the rest.
START = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""

MODEL = """\
model = nn.Linear(4, 2).to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
"""

PICTURES = """\
class Pictures(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, i):
"""

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
"""
