# A room is a folder that is a static library of its own, so that the linker sees what the folder
# needs: hvd::core_base is core/base, hvd::nn is horovod_cpp/nn. Names of rooms are those of MAY_INCLUDE in test/lint/structure.py;
# folders below that have no row there belong to the room above.

function(hvd_names_of_rooms result)
  set(names ${ARGN})
  list(TRANSFORM names REPLACE "^horovod_cpp/" "")
  list(TRANSFORM names REPLACE / _)
  set(${result} ${names} PARENT_SCOPE)
endfunction()

# hvd_add_room(FOLDER [SOURCES file...] [ROOMS folder...] [LIBS library...])
# From every source of FOLDER unless SOURCES says which; headers alone make an interface. ROOMS: what
# it includes, directly.
function(hvd_add_room folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;ROOMS;LIBS" ${ARGN})
  hvd_names_of_rooms(name ${folder})
  set(sources ${ARG_SOURCES})
  if(NOT sources)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  endif()
  set(scope PUBLIC)
  if(sources)
    add_library(hvd_${name} STATIC ${sources})
  else()
    add_library(hvd_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  add_library(hvd::${name} ALIAS hvd_${name})
  set_target_properties(hvd_${name} PROPERTIES EXPORT_NAME ${name})
  hvd_names_of_rooms(rooms ${ARG_ROOMS})
  list(TRANSFORM rooms PREPEND hvd::)
  target_link_libraries(hvd_${name} ${scope} hvd::build_flags ${rooms} ${ARG_LIBS})
  set_property(GLOBAL APPEND PROPERTY HVD_ROOMS hvd_${name})
endfunction()

# hvd_add_house(NAME folder...)   The rooms under one name: hvd::NAME
function(hvd_add_house name)
  hvd_names_of_rooms(rooms ${ARGN})
  list(TRANSFORM rooms PREPEND hvd::)
  add_library(hvd_${name} INTERFACE)
  add_library(hvd::${name} ALIAS hvd_${name})
  set_target_properties(hvd_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(hvd_${name} INTERFACE ${rooms})
  set_property(GLOBAL APPEND PROPERTY HVD_ROOMS hvd_${name})
endfunction()
