# What `cmake --install` lays down beside the executable, the modules and the vectors, which their folders install
# themselves: headers, static libraries, and the package that find_package(plumbline) finds. Requirements are compiled
# in. All that is found here is found by relative paths: the folder may be moved.
include(CMakePackageConfigHelpers)

# INSTALL_RPATH_USE_LINK_PATH leaves out folders inside the project, and .venv is one.
if(PLUMBLINE_HAS_TORCH AND PLUMBLINE_WHEEL)
  # From site-packages/plumbline/lib/plumbline to site-packages/torch/lib.
  set_property(TARGET plumbline_training plumbline_c10d APPEND PROPERTY INSTALL_RPATH $ORIGIN/../../../torch/lib)
elseif(PLUMBLINE_HAS_TORCH)
  set_property(TARGET plumbline_training plumbline_c10d APPEND PROPERTY INSTALL_RPATH ${PLUMBLINE_TORCH_LIBRARIES})
endif()

# Public headers, under the paths by which they include each other: those directly in a component's folder, none of its detail/.
set(headers "")
foreach(component IN ITEMS bucketing comm device gossip groups program record scaler schedules slowmo topology training)
  file(GLOB of_component RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS reference/${component}/*.hpp)
  list(APPEND headers ${of_component})
endforeach()
list(FILTER headers EXCLUDE REGEX "_test\\.hpp$")
foreach(header IN LISTS headers ITEMS
    harness/trainer/pipeline_run.hpp harness/trainer/hooks.hpp harness/trainer/learning_rate.hpp harness/trainer/settings.hpp
    harness/trainer/timers.hpp harness/trainer/trainer.hpp
    harness/subject/backend.hpp harness/subject/group_identity.hpp)  # for writers of backend modules
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plumbline/${folder})
endforeach()

# The C interface of plugins, at the top of the include folder, since it includes none of the others.
install(FILES harness/subject/plumbline_backend.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plumbline)

# Literally lib, as the modules: the package says where they are by a path from its own.
set_target_properties(plumbline_settings PROPERTIES EXPORT_NAME settings)
install(TARGETS plumbline_settings plumbline_support plumbline_comm plumbline_device plumbline_job_record plumbline_digits plumbline_topology plumbline_groups plumbline_schedules
  plumbline_bucketing plumbline_reducer plumbline_program plumbline_program_run plumbline_scaler plumbline_gossip plumbline_slowmo plumbline_training_steps
  # for build-module
  plumbline_checkpoint_files plumbline_training_trainer plumbline_training_data plumbline_averaging_settings plumbline_subject
  EXPORT plumbline ARCHIVE DESTINATION lib)
# Who links the libraries needs fmt: the machine's, or that which was built with them.
get_target_property(fmt_is_of_machine fmt::fmt IMPORTED)
if(fmt_is_of_machine)
  set(fmt_dependency "find_dependency(fmt ${fmt_VERSION})")
else()
  set(fmt_dependency "")
  # Our headers include none of its; samples do, and modules that are built again.
  get_target_property(fmt_folder fmt SOURCE_DIR)
  set(third_party ${CMAKE_INSTALL_INCLUDEDIR}/plumbline/third_party)
  set_property(TARGET fmt PROPERTY PUBLIC_HEADER)
  set_property(TARGET fmt PROPERTY INTERFACE_INCLUDE_DIRECTORIES $<BUILD_INTERFACE:${fmt_folder}/include> $<INSTALL_INTERFACE:${third_party}>)
  install(TARGETS fmt EXPORT plumbline ARCHIVE DESTINATION lib)
  install(DIRECTORY ${fmt_folder}/include/fmt DESTINATION ${third_party})
endif()
install(EXPORT plumbline FILE plumblineTargets.cmake NAMESPACE plumbline:: DESTINATION lib/cmake/plumbline)
configure_package_config_file(ci/cmake/plumblineConfig.cmake.in plumblineConfig.cmake
  INSTALL_DESTINATION lib/cmake/plumbline)
write_basic_package_version_file(plumblineConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/plumblineConfig.cmake ${PROJECT_BINARY_DIR}/plumblineConfigVersion.cmake
  DESTINATION lib/cmake/plumbline)

install(FILES results/schema/run.schema.json DESTINATION ${CMAKE_INSTALL_DATADIR}/plumbline/schema)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The digits are compiled in under a licence of their own, which asks to be named.
install(FILES reference/training/data/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME digits.md)
plumbline_note_linked(digits 1998 CC-BY-4.0 ${PROJECT_SOURCE_DIR}/reference/training/data/README.md)
# What of other people's is in the files: ci/package/sbom reads it.
get_property(linked GLOBAL PROPERTY PLUMBLINE_LINKED)
list(JOIN linked ",\n " linked)
file(WRITE ${PROJECT_BINARY_DIR}/linked.json "[${linked}]\n")
install(FILES ${PROJECT_BINARY_DIR}/linked.json DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences)
install(FILES results/schema/validate_record.py DESTINATION ${CMAKE_INSTALL_DATADIR}/plumbline/schema)

# A whole backend module, to read and to build against another MPI or to begin one's own with.
file(GLOB samples RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS harness/subject/mpi/*.hpp harness/subject/mpi/*.cpp)
list(FILTER samples EXCLUDE REGEX "_test\\.[ch]pp$|_bench\\.cpp$")
foreach(file IN LISTS samples ITEMS harness/subject/mpi/README.md)
  get_filename_component(folder ${file} DIRECTORY)
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/plumbline/samples/mpi/${folder})
endforeach()
install(FILES ci/package/samples/mpi/CMakeLists.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/plumbline/samples/mpi)

if(PLUMBLINE_HAS_TORCH)
  include(PlumblineModuleSources)
endif()

# What adapters and jobs in Python import, and every README with what it refers to, under the paths by which they name each other.
set(adapter_helper harness/subject/adapter/python/plumbline_adapter.py)
set(job_helpers harness/subject/job/python/plumbline_job.py harness/subject/job/python/plumbline_torch_job.py)
if(PLUMBLINE_WHEEL)
  # The prefix is site-packages/plumbline: the importable package, and below it what any other installation has.
  install(FILES ci/package/plumbline/__init__.py ci/package/plumbline/__main__.py DESTINATION .)
  install(FILES ${adapter_helper} DESTINATION . RENAME adapter.py)
  install(FILES harness/subject/job/python/plumbline_job.py DESTINATION . RENAME job.py)
  install(FILES harness/subject/job/python/plumbline_torch_job.py DESTINATION . RENAME torch_job.py)
  set(results_package results)
else()
  set(results_package ${CMAKE_INSTALL_DATADIR}/plumbline/python/plumbline_results)
  install(FILES ${adapter_helper} ${job_helpers} DESTINATION ${CMAKE_INSTALL_DATADIR}/plumbline/python)
endif()
# The tools that read records; in the build tree as they are in the sources, so that an edit counts at once.
install(DIRECTORY results/plumbline_results/ DESTINATION ${results_package} PATTERN __pycache__ EXCLUDE)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/plumbline/python)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/results/plumbline_results ${PROJECT_BINARY_DIR}/share/plumbline/python/plumbline_results SYMBOLIC)
set(readmes "")
foreach(top IN ITEMS benchmarks ci conformance harness reference results)
  file(GLOB_RECURSE below RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${top}/README.md ${top}/DECISIONS.md)
  list(APPEND readmes ${below})
endforeach()
file(GLOB_RECURSE pictures RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS reference/*.svg)
foreach(readme IN LISTS readmes pictures ITEMS results/averaging/digits.svg README.md conformance/STATEMENTS.md)
  get_filename_component(folder ${readme} DIRECTORY)
  install(FILES ${readme} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()

# What those READMEs offer to copy.
install(FILES ci/workflows/github.yml ci/workflows/gitlab.yml DESTINATION ${CMAKE_INSTALL_DOCDIR}/ci/workflows)
install(PROGRAMS ci/workflows/steps DESTINATION ${CMAKE_INSTALL_DOCDIR}/ci/workflows)
install(FILES results/dashboard/plumbline.json results/dashboard/alerts.yml results/dashboard/alerts_test.yml
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/results/dashboard)

# ci/package/deb makes a Debian package of all that. What its ELF files need becomes Depends, but for LibTorch, which no package of
# Debian has in the version that training was built for: the module finds it in the Python of whoever runs it. Of MPI they need none.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME plumbline)
set(CPACK_PACKAGE_CONTACT "the authors of Plumbline <noreply@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(PLUMBLINE_HAS_TORCH)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PLUMBLINE_TORCH_LIBRARIES})
endif()
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3, openmpi-bin | mpich")
include(CPack)
