(import_declaration) @clause
(attribute (user_type (type_identifier) @_main) (#eq? @_main "main")) @entry
[(if_statement) (guard_statement) (for_statement) (while_statement) (repeat_while_statement) (catch_block)
 (ternary_expression) (conjunction_expression) (disjunction_expression) (nil_coalescing_expression)] @branch
(switch_entry (switch_pattern)) @branch
