(identifier) @name
(type_identifier) @type
(call_expression function: [
  (identifier) @call
  (field_expression field: (identifier) @call)
  (generic_function function: [(identifier) @call (field_expression field: (identifier) @call)])])
(instance_expression (type_identifier) @call)
(import_declaration) @import
