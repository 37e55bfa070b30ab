(identifier) @name
(call function: [(identifier) @call (attribute attribute: (identifier) @call)])
(decorator [(identifier) @call (attribute attribute: (identifier) @call)])
(type [(identifier) @type (attribute attribute: (identifier) @type)])
(class_definition superclasses: (argument_list [(identifier) @type (attribute attribute: (identifier) @type)]))
(keyword_argument name: (identifier) @skip)
[(import_statement) (import_from_statement)] @import
