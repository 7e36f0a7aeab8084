from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import eigenformer
import eigenformer.data
import eigenformer.training


@pytest.mark.parametrize("statement", ["import eigenformer", "import eigenformer.config"])
def test_pytorch_is_not_loaded_until_needed(statement):
    code = f"{statement}; import sys; assert 'torch' not in sys.modules; eigenformer.presets()"
    code += "; assert 'torch' not in sys.modules; eigenformer.ScalarMLP; import torch"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("package", [eigenformer, eigenformer.data, eigenformer.training])
def test_public_names(package):
    for name in package.__all__:
        value = getattr(package, name)
        assert getattr(value, "__name__", name) == name
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="'Eigenfromer'"):
        _ = eigenformer.Eigenfromer


def test_no_module_takes_a_public_names_place():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("eigenformer.presets")
    assert len(eigenformer.presets()) >= 14
