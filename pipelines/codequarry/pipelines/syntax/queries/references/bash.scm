(variable_name) @name
(command name: (command_name (word) @call))
(program (variable_assignment name: (variable_name) @bound.variable) @extent)
(program (declaration_command (variable_assignment name: (variable_name) @bound.variable) @extent))
