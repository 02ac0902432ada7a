# Run by `cmake --install`: the headers below `headers` include each other from horovod_cpp/.
file(GLOB_RECURSE installed "${headers}/horovod_cpp/*.h")
foreach(header IN LISTS installed)
  file(READ "${header}" text)
  string(REGEX REPLACE "#include \"(core|ops)/" "#include \"horovod_cpp/\\1/" text "${text}")
  file(WRITE "${header}" "${text}")
endforeach()
