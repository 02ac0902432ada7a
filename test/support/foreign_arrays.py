"""Arrays of a library that nobody knows, which speak DLPack."""

import ctypes

import numpy as np


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Plain(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", Deleter), ("flags", ctypes.c_uint64),
                ("tensor", DLTensor)]


make_capsule = ctypes.pythonapi.PyCapsule_New
make_capsule.restype = ctypes.py_object
make_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Foreign:
    """An array of a library that nobody knows; any field of what it exports can be a lie."""

    lent = []  # lives until its deleter was called, whoever drops it

    def __init__(self, values, versioned=True, device=1, flags=0, major=1, **fields):
        self.values, self.device, self.deleted = np.array(values, np.float32), device, 0
        shape = (ctypes.c_int64 * self.values.ndim)(*self.values.shape)
        tensor = DLTensor(self.values.ctypes.data, device, 0, self.values.ndim, 2, 32, 1, shape,
                          None, 0)
        for name, value in fields.items():
            setattr(tensor, name, value)
        deleter = Deleter(self._delete)
        self.managed = (Versioned(major, 0, None, deleter, flags, tensor) if versioned
                        else Plain(tensor, None, deleter))
        self.name = b"dltensor_versioned" if versioned else b"dltensor"

    def _delete(self, _):
        self.deleted += 1
        self.lent.remove(self)

    def capsule(self):
        self.lent.append(self)
        return make_capsule(ctypes.addressof(self.managed), self.name, None)

    def __dlpack__(self, **_):
        return self.capsule()

    def __dlpack_device__(self):
        return self.device, 0


class Old(Foreign):
    """Of a library from before DLPack 1.0."""

    def __init__(self, values, **fields):
        super().__init__(values, versioned=False, **fields)

    def __dlpack__(self):
        return self.capsule()
