(function_call name: (identifier) @_require arguments: (arguments . (string (string_content) @source))
  (#eq? @_require "require"))
(function_call name: (identifier) @_pcall
  arguments: (arguments . (identifier) @_require . (string (string_content) @source))
  (#any-of? @_pcall "pcall" "xpcall") (#eq? @_require "require"))
(chunk
  (function_declaration name: [
    (dot_index_expression table: (identifier) @_table field: (_) @export)
    (method_index_expression table: (identifier) @_table method: (_) @export)])
  (return_statement (expression_list . (identifier) @_returned .)) (#eq? @_table @_returned))
(chunk
  (assignment_statement (variable_list . name: (dot_index_expression table: (identifier) @_table field: (_) @export) .))
  (return_statement (expression_list . (identifier) @_returned .)) (#eq? @_table @_returned))
(chunk (return_statement (expression_list . (table_constructor (field name: (identifier) @export)) .)))
(chunk (function_declaration name: (identifier) @export) @_whole (#not-match? @_whole "^local"))
[(if_statement) (elseif_statement) (for_statement) (while_statement) (repeat_statement)
 (binary_expression ["and" "or"])] @branch
