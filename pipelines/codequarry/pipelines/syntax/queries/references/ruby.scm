[(identifier) (constant)] @name
(call method: [(identifier) (constant)] @call)
(superclass (constant) @type)
