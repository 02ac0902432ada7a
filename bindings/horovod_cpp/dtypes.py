"""The names of the dtypes: ``hvd.float32 == "float32" == hvd.ones(1).dtype``."""

bool = "bool"
uint8 = "uint8"
int8 = "int8"
uint16 = "uint16"
int16 = "int16"
int32 = "int32"
int64 = "int64"
float16 = "float16"
bfloat16 = "bfloat16"
float32 = "float32"
float64 = "float64"
complex64 = "complex64"
complex128 = "complex128"

# PyTorch's other names.
half = float16
float = float32
double = float64
int = int32
long = int64
