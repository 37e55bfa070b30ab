(header module: (_) @name) @definition.module
(data_type name: (_) @name constructors: (data_constructors (data_constructor) (data_constructor)) @body) @definition.enum
(data_type name: (_) @name constructors: (gadt_constructors (gadt_constructor) (gadt_constructor)) @body)
  @definition.enum
(data_type name: (_) @name constructors: (_) @body) @definition.struct
(data_type name: (_) @name) @definition.struct
(newtype name: (_) @name constructor: (_) @body) @definition.struct
(type_synonym name: (_) @name) @definition.type
(type_family name: (_) @name) @definition.type
(data_family name: (_) @name) @definition.type
(class name: (_) @name) @definition.class
(declarations (instance name: (_) @qualifier patterns: (type_patterns . (_) @head)) @definition.object)
(declarations (instance name: (_) @name !patterns) @definition.object)
(pattern_synonym (equation synonym: [
  (constructor) @name
  (apply function: [(constructor) @name (apply function: [(constructor) @name (apply function: (constructor) @name)])])
  (record constructor: (_) @name)])) @definition.function
(foreign_import signature: (signature name: (variable) @name)) @definition.function

(declarations (signature name: [(variable) @name (prefix_id (operator) @name)]) @prefix.function)
(local_binds (signature name: [(variable) @name (prefix_id (operator) @name)]) @prefix.function)
(instance_declarations (signature name: [(variable) @name (prefix_id (operator) @name)]) @prefix.function)
(class_declarations (signature name: [(variable) @name (prefix_id (operator) @name)]) @definition.method)
(class_declarations (signature names: (binding_list . name: [(variable) @name (prefix_id (operator) @name)]))
  @definition.method)
(class_declarations (default_signature signature: (signature name: [(variable) @name (prefix_id (operator) @name)]))
  @prefix.function)
(function name: [(variable) @name (prefix_id (operator) @name)]) @definition.function
(function (infix operator: [(operator) @name (infix_id (variable) @name)])) @definition.function
(function parens: (function_head_parens (infix operator: [(operator) @name (infix_id (variable) @name)])))
  @definition.function
(function parens: (function_head_parens name: [(variable) @name (prefix_id (operator) @name)])) @definition.function
(declarations (bind name: [(variable) @name (prefix_id (operator) @name)]) @definition.function)
(class_declarations (bind name: [(variable) @name (prefix_id (operator) @name)]) @definition.function)
(instance_declarations (bind name: [(variable) @name (prefix_id (operator) @name)]) @definition.function)
