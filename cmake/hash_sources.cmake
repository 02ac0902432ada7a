# cmake -DROOT=... -DHVD_VERSION=... -DTEMPLATE=... -DOUTPUT=... -P hash_sources.cmake
# Fills TEMPLATE in with HVD_VERSION and one hash of the engine's sources, by name and content. OUTPUT
# stays as it is, and what is built of it too, if nothing changed.
file(GLOB_RECURSE sources RELATIVE ${ROOT} LIST_DIRECTORIES false
     ${ROOT}/core/*.h ${ROOT}/core/*.cc ${ROOT}/ops/*.h ${ROOT}/ops/*.cc ${ROOT}/ops/*.cu)
list(SORT sources)
set(all "")
foreach(source ${sources})
  file(SHA256 ${ROOT}/${source} hash)
  string(APPEND all "${source} ${hash}\n")
endforeach()
string(SHA256 HVD_SOURCES "${all}")
string(SUBSTRING ${HVD_SOURCES} 0 12 HVD_SOURCES)
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
