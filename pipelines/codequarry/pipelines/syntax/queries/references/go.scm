[(identifier) (field_identifier)] @name
(type_identifier) @type
(call_expression function: [
  (identifier) @call
  (selector_expression field: (field_identifier) @call)])
(import_declaration) @import
[(function_declaration) (method_declaration) (func_literal) (function_type) (method_elem)] @scope
(var_spec name: (identifier) @bound.variable) @extent
(const_spec name: (identifier) @bound.constant) @extent
[(short_var_declaration left: (expression_list (identifier) @bound.local))
 (range_clause left: (expression_list (identifier) @bound.local))
 (receive_statement left: (expression_list (identifier) @bound.local))
 (type_switch_statement alias: (expression_list (identifier) @bound.local))]
[(parameter_declaration name: (identifier) @bound.local)
 (variadic_parameter_declaration name: (identifier) @bound.local)]
(field_declaration name: (field_identifier) @bound.field) @extent
(keyed_element . (literal_element (identifier) @outer))
