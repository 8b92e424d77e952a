"""Which device is meant, which is there, and whose word counts."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest
import torch

import graphsde as gs
from graphsde.base import device, memory
from graphsde.base.device import available_devices, device_for, find_device, on_device, widened, widest_type
from graphsde.base.errors import BadUsage, NotEnoughMemory


@pytest.fixture
def two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


def test_the_cpu_is_always_there() -> None:
    assert available_devices()[-1] == "cpu"
    assert find_device("cpu") == torch.device("cpu")


def test_auto_takes_the_first_card_then_apple_then_the_cpu(monkeypatch: pytest.MonkeyPatch, two_cards: None) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert available_devices() == ("cuda:0", "cuda:1", "mps", "cpu")
    assert find_device("auto") == find_device("cuda") == torch.device("cuda:0")
    assert find_device("cuda:1") == torch.device("cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == torch.device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert find_device("auto") == torch.device("cpu")


def test_a_device_that_is_not_there_is_refused_with_those_that_are(two_cards: None) -> None:
    with pytest.raises(BadUsage, match=r"no device 'cuda:2'.*cuda:0, cuda:1, cpu") as refused:
        find_device("cuda:2")
    assert refused.value.code == "E-DEVICE"


@pytest.mark.parametrize("name", ["gpu", "cuda:", "CUDA", "cuda:-1", "", "cpu:0"])
def test_a_name_that_no_device_has_is_refused(name: str) -> None:
    with pytest.raises(BadUsage, match="auto, cpu, cuda"):
        find_device(name)


def test_the_nearest_word_counts(monkeypatch: pytest.MonkeyPatch, two_cards: None) -> None:
    assert device_for() == torch.device("cpu")
    monkeypatch.setenv(device.DEVICE_VARIABLE, "cuda:1")
    assert device_for() == torch.device("cuda:1")
    with on_device("cuda"):
        assert device_for() == torch.device("cuda:0")
        with on_device(None):
            assert device_for() == torch.device("cuda:0")
        with on_device("cpu"):
            assert device_for() == torch.device("cpu")
            assert device_for("cuda:1") == torch.device("cuda:1")
        assert device_for() == torch.device("cuda:0")
    assert device_for() == torch.device("cuda:1")


def test_a_model_says_so_before_it_trains() -> None:
    with pytest.raises(BadUsage, match=r"'device' of model 'gcn' can't be 'gpu'.*auto, cpu, cuda"):
        gs.GCN(device="gpu")
    missing = "mps" if not torch.backends.mps.is_available() else "cuda:99"
    with pytest.raises(BadUsage, match="this machine has no device") as refused:
        gs.GCN(device=missing, epochs=1).fit(gs.load("digits"))
    assert refused.value.code == "E-DEVICE"


def test_only_apple_has_no_float64() -> None:
    assert widest_type(torch.device("mps")) is torch.float32
    assert {widest_type(torch.device(one)) for one in ("cpu", "cuda", "meta")} == {torch.float64}
    x = torch.tensor([0.1])
    assert torch.equal(widened(x), x.double())


def test_memory_is_asked_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda where: asked.append(where) or (3000, 8000))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=9000))
    monkeypatch.delenv(memory.LIMIT_VARIABLE, raising=False)
    card = torch.device("cuda:1")
    assert memory.available_bytes() == memory.available_bytes(torch.device("mps")) == 9000
    assert memory.available_bytes(card) == 3000 and asked == [card]
    memory.require_memory(5000, "this", "less")
    with pytest.raises(NotEnoughMemory, match=r"at most 3 KB on cuda:1"):
        memory.require_memory(5000, "this", "less", card)


def test_words_of_other_libraries_lead_here() -> None:
    with pytest.raises(BadUsage, match="device"):
        gs.GCN(use_gpu=True)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match="on_device"):
        gs.GCN().to("cuda")  # type: ignore[attr-defined]
