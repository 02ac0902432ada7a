# The install tree: libraries, headers and the package file that find_package(horovod_cpp) reads.
include(CMakePackageConfigHelpers)

set(HVD_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/horovod_cpp)
set(HVD_HEADER_DIR ${CMAKE_INSTALL_INCLUDEDIR}/horovod_cpp-${PROJECT_VERSION_MAJOR})

get_property(hvd_rooms GLOBAL PROPERTY HVD_ROOMS)
set(hvd_exported hvd_build_flags ${hvd_rooms})
install(TARGETS ${hvd_exported} EXPORT horovod_cppTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
set(hvd_header_folders core ops)
if(HVD_TRAINING)
  list(APPEND hvd_header_folders horovod_cpp/)  # what is in it
endif()
# All headers lie in horovod_cpp/, so that a program may have a folder core/ or ops/ of its own.
install(DIRECTORY ${hvd_header_folders} DESTINATION ${HVD_HEADER_DIR}/horovod_cpp
        COMPONENT development FILES_MATCHING PATTERN "*.h")
install(CODE "set(headers \"${HVD_HEADER_DIR}\")" COMPONENT development)
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/installed_includes.cmake COMPONENT development)
install(EXPORT horovod_cppTargets NAMESPACE hvd:: DESTINATION ${HVD_CMAKE_DIR}
        COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/horovod_cppConfig.cmake.in
  ${PROJECT_BINARY_DIR}/horovod_cppConfig.cmake INSTALL_DESTINATION ${HVD_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/horovod_cppConfigVersion.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/horovod_cppConfig.cmake
              ${PROJECT_BINARY_DIR}/horovod_cppConfigVersion.cmake
        DESTINATION ${HVD_CMAKE_DIR} COMPONENT development)
