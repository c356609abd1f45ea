"""Lets SGLang be imported without its GPU kernels: whatever is taken from `sgl_kernel` is an object that raises when called."""
import importlib.abc
import importlib.machinery
import sys
import types


class Stub:
    def __init__(self, name):
        self._name = self.__name__ = name

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return Stub(f"{self._name}.{attribute}")

    def __call__(self, *args, **kwargs):
        raise RuntimeError(f"{self._name} is a stub: there are no GPU kernels here")

    def __mro_entries__(self, bases):
        return (object,)


class StubModule(types.ModuleType):
    __path__ = []
    __version__ = "9.9.9"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(f"{self.__name__}.{name}")


class StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "sgl_kernel":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StubModule(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, StubFinder())
