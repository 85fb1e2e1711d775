# strata_embed_text(target header file...): each file as text inside `target`. The header, which is
# in the tree, declares them in namespace strata as `extern const std::string_view`: page.js as
# kPageJs.
set(strata_embed_script ${CMAKE_CURRENT_LIST_FILE})
function(strata_embed_text target header)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  cmake_path(GET header STEM stem)
  set(output ${PROJECT_BINARY_DIR}/embedded/${stem}.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${header} "-DFILES=${files}"
            -P ${strata_embed_script}
    DEPENDS ${files} ${strata_embed_script}
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

if(CMAKE_SCRIPT_MODE_FILE AND DEFINED OUTPUT)
  set(text "#include \"${HEADER}\"\n\nnamespace strata {\n")
  foreach(file IN LISTS FILES)
    cmake_path(GET file FILENAME name)
    string(REGEX REPLACE "[^a-zA-Z0-9]" ";" words "${name}")
    set(constant k)
    foreach(word IN LISTS words)
      string(SUBSTRING "${word}" 0 1 first)
      string(TOUPPER "${first}" first)
      string(SUBSTRING "${word}" 1 -1 rest)
      string(APPEND constant "${first}${rest}")
    endforeach()
    file(READ ${file} content)
    string(APPEND text "const std::string_view ${constant} = R\"~~~(${content})~~~\";\n")
  endforeach()
  file(WRITE ${OUTPUT} "${text}}  // namespace strata\n")
endif()
