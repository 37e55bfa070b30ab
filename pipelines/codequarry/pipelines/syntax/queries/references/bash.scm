(variable_name) @name
(command name: (command_name (word) @call))
