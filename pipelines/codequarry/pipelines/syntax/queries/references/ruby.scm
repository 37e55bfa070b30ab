[(identifier) (constant)] @name
(call method: [(identifier) (constant)] @call)
(superclass (constant) @type)
[(method) (singleton_method) (block) (do_block) (lambda)] @scope
[(assignment left: (identifier) @bound.local) (operator_assignment left: (identifier) @bound.local)
 (left_assignment_list (identifier) @bound.local)
 (method_parameters (identifier) @bound.local) (block_parameters (identifier) @bound.local)
 (lambda_parameters (identifier) @bound.local) (optional_parameter name: (identifier) @bound.local)
 (keyword_parameter name: (identifier) @bound.local) (splat_parameter name: (identifier) @bound.local)
 (hash_splat_parameter name: (identifier) @bound.local) (block_parameter name: (identifier) @bound.local)
 (exception_variable (identifier) @bound.local)]
(call method: (identifier) @_accessor arguments: (argument_list (simple_symbol) @bound.accessor)
  (#any-of? @_accessor "attr_reader" "attr_writer" "attr_accessor")) @extent
(alias name: (identifier) @bound.method) @extent
(call method: (identifier) @_alias arguments: (argument_list . (simple_symbol) @bound.method)
  (#any-of? @_alias "alias_method" "define_method" "def_delegator")) @extent
