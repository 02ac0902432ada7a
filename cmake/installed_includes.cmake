# Run by `cmake --install`: the headers below `headers` include each other from horovod_cpp/.
# `headers` is a path below the prefix, or an absolute one.
cmake_path(ABSOLUTE_PATH headers BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}")
set(headers "$ENV{DESTDIR}${headers}")
# An older version put its headers there.
file(REMOVE_RECURSE "${headers}/core" "${headers}/ops")
file(GLOB_RECURSE installed "${headers}/horovod_cpp/*.h")
if(NOT installed)
  message(FATAL_ERROR "no headers were installed in ${headers}/horovod_cpp")
endif()
foreach(header IN LISTS installed)
  file(READ "${header}" text)
  string(REGEX REPLACE "#include \"(core|ops)/" "#include \"horovod_cpp/\\1/" text "${text}")
  file(WRITE "${header}" "${text}")
endforeach()
