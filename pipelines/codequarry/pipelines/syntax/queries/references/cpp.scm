(call_expression function: [
  (qualified_identifier name: (identifier) @call)
  (template_function name: (identifier) @call)
  (field_expression field: (template_method name: (field_identifier) @call))])
(using_declaration) @import
