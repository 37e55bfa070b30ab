[(variable) (constructor) (operator) (constructor_operator)] @name
(name) @type
(apply function: [
  (variable) @call
  (constructor) @call
  (qualified id: [(variable) (constructor)] @call)
  (apply function: [
    (variable) @call
    (constructor) @call
    (qualified id: [(variable) (constructor)] @call)
    (apply function: [
      (variable) @call
      (constructor) @call
      (qualified id: [(variable) (constructor)] @call)])])])
(infix left_operand: [(variable) @call (qualified id: (variable) @call)] operator: (operator) @_operator
  (#any-of? @_operator "$" "$!" "<$>"))
(import) @import
(import module: (module (module_id) @name .))
(module_export (module (module_id) @name .))
(function_head_parens (infix operator: (operator) @skip))
(field name: (field_name (variable) @bound.field)) @extent
(data_constructor (prefix name: (constructor) @bound.enum_member)) @extent
(data_constructor (record name: (constructor) @bound.enum_member)) @extent
