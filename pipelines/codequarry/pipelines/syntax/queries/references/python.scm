(identifier) @name
(call function: [(identifier) @call (attribute attribute: (identifier) @call)])
(decorator [(identifier) @call (attribute attribute: (identifier) @call)])
(type [(identifier) @type (attribute attribute: (identifier) @type)])
(class_definition superclasses: (argument_list [(identifier) @type (attribute attribute: (identifier) @type)]))
(keyword_argument name: (identifier) @skip)
[(import_statement) (import_from_statement)] @import
[(function_definition) (lambda) (list_comprehension) (set_comprehension) (dictionary_comprehension)
 (generator_expression)] @scope
(assignment left: (identifier) @bound.variable) @extent
(assignment left: [(pattern_list (identifier) @bound.variable) (tuple_pattern (identifier) @bound.variable)]) @extent
(assignment left: (attribute attribute: (identifier) @bound.attribute)) @extent
(named_expression name: (identifier) @bound.local)
[(for_statement left: (identifier) @bound.local) (for_in_clause left: (identifier) @bound.local)]
(for_statement left: (_ (identifier) @bound.local))
(for_in_clause left: (_ (identifier) @bound.local))
(as_pattern_target (identifier) @bound.local)
[(parameters (identifier) @bound.local) (lambda_parameters (identifier) @bound.local)]
(default_parameter name: (identifier) @bound.local)
(typed_parameter . (identifier) @bound.local)
(typed_default_parameter name: (identifier) @bound.local)
[(list_splat_pattern (identifier) @bound.local) (dictionary_splat_pattern (identifier) @bound.local)]
[(global_statement (identifier) @global) (nonlocal_statement (identifier) @global)]
[(default_parameter value: (identifier) @outer) (typed_default_parameter value: (identifier) @outer)]
