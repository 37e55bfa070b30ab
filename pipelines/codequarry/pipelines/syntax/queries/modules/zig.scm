(builtin_function (builtin_identifier) @_import (arguments . (string (string_content) @beside))
  (#eq? @_import "@import") (#match? @beside "[.]z(ig|on)$"))
(builtin_function (builtin_identifier) @_import (arguments . (string (string_content) @source))
  (#eq? @_import "@import") (#not-match? @source "[.]z(ig|on)$"))
[(if_statement) (if_expression) (for_statement) (for_expression) (while_statement) (while_expression)
 (catch_expression) (binary_expression ["and" "or" "orelse"])] @branch
(switch_case . [(_) ".." "..."] @_first "=>" (#not-eq? @_first "else")) @branch
