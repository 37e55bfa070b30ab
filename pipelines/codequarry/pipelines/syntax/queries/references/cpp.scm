(call_expression function: [
  (qualified_identifier name: (identifier) @call)
  (template_function name: (identifier) @call)
  (field_expression field: (template_method name: (field_identifier) @call))])
(using_declaration) @import
(lambda_expression) @scope
(reference_declarator (identifier) @bound.variable)
(reference_declarator (field_identifier) @bound.field)
(function_declarator declarator: [(destructor_name) (operator_name)] @bound.method)
[(for_range_loop declarator: (identifier) @bound.local)
 (optional_parameter_declaration declarator: (identifier) @bound.local)
 (structured_binding_declarator (identifier) @bound.local)]
[(declaration declarator: (qualified_identifier name: (identifier) @bound.variable))
 (init_declarator declarator: (qualified_identifier name: (identifier) @bound.variable))
 (array_declarator declarator: (qualified_identifier name: (identifier) @bound.variable))
 (pointer_declarator declarator: (qualified_identifier name: (identifier) @bound.variable))]
