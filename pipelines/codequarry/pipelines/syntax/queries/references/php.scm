(name) @name
(variable_name (name) @skip)
(function_call_expression function: [(name) @call (qualified_name (name) @call)])
(member_call_expression name: (name) @call)
(nullsafe_member_call_expression name: (name) @call)
(scoped_call_expression name: (name) @call)
(object_creation_expression [(name) @call (qualified_name (name) @call)])
(named_type [(name) @type (qualified_name (name) @type)])
(base_clause [(name) @type (qualified_name (name) @type)])
(class_interface_clause [(name) @type (qualified_name (name) @type)])
(namespace_use_declaration) @import
[(function_definition) (method_declaration) (anonymous_function) (arrow_function)] @scope
(property_declaration (property_element name: (variable_name (name) @bound.property))) @extent
(property_promotion_parameter name: (variable_name (name) @bound.promoted)) @extent
(enum_case name: (name) @bound.enum_member) @extent
(program (expression_statement (assignment_expression left: (variable_name (name) @bound.variable)) @extent))
(function_call_expression function: (name) @_define arguments: (arguments . (argument (string (string_content) @bound.constant)))
  (#eq? @_define "define")) @extent
