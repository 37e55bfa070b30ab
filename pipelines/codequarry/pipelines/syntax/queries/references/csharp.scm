(identifier) @name
(invocation_expression function: [
  (identifier) @call
  (member_access_expression name: [(identifier) @call (generic_name (identifier) @call)])
  (generic_name (identifier) @call)])
(object_creation_expression type: [(identifier) @call (generic_name (identifier) @call)])
(base_list (identifier) @type)
(method_declaration returns: (identifier) @type)
(parameter type: (identifier) @type)
(variable_declaration type: (identifier) @type)
(using_directive) @import
