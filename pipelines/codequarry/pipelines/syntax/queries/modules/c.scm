(preproc_include path: (string_literal (string_content) @source))
(preproc_include path: (system_lib_string) @source)
[(if_statement) (for_statement) (while_statement) (do_statement) (case_statement value: (_)) (conditional_expression)
 (binary_expression operator: ["&&" "||"])] @branch
