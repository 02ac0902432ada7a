// A library that has one function of NCCL: the version HVD_VERSION.
extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = HVD_VERSION;
  return 0;
}
