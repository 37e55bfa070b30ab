(use_declaration) @clause
(mod_item name: (identifier) @module !body)
(extern_crate_declaration name: (identifier) @source)
[(use_declaration) (mod_item !body) (extern_crate_declaration) (inner_attribute_item) (attribute_item)] @plain
[(if_expression) (for_expression) (while_expression) (let_declaration alternative: (_))
 (binary_expression operator: ["&&" "||"])] @branch
(match_arm pattern: (match_pattern (_))) @branch
