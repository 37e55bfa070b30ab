[(identifier) (field_identifier)] @name
(type_identifier) @type
(call_expression function: [
  (identifier) @call
  (selector_expression field: (field_identifier) @call)])
(import_declaration) @import
