[(identifier) (field_identifier) (shorthand_field_identifier)] @name
(type_identifier) @type
(call_expression function: [
  (identifier) @call
  (field_expression field: (field_identifier) @call)
  (scoped_identifier name: (identifier) @call)
  (generic_function function: [
    (identifier) @call
    (field_expression field: (field_identifier) @call)
    (scoped_identifier name: (identifier) @call)])])
(macro_invocation macro: [(identifier) @call (scoped_identifier name: (identifier) @call)])
(use_declaration) @import
[(function_item) (closure_expression) (function_signature_item)] @scope
[(let_declaration pattern: (identifier) @bound.local) (for_expression pattern: (identifier) @bound.local)
 (parameter pattern: (identifier) @bound.local) (closure_parameters (identifier) @bound.local)
 (tuple_pattern (identifier) @bound.local) (mut_pattern (identifier) @bound.local) (ref_pattern (identifier) @bound.local)
 (reference_pattern (identifier) @bound.local) (captured_pattern . (identifier) @bound.local)
 (field_pattern name: (shorthand_field_identifier) @bound.local) (field_pattern pattern: (identifier) @bound.local)]
((tuple_struct_pattern type: (_) (identifier) @bound.local) (#match? @bound.local "^[a-z_]"))
((match_pattern . (identifier) @bound.local) (#match? @bound.local "^[a-z_]"))
(field_declaration name: (field_identifier) @bound.field) @extent
(enum_variant name: (identifier) @bound.enum_member) @extent
(mod_item name: (identifier) @bound.module !body) @extent
(associated_type name: (type_identifier) @bound.type) @extent
(field_initializer field: (field_identifier) @outer)
