// basalt basalt basalt basalt basalt basalt basalt basalt basalt basalt basalt basalt
// basalt basalt basalt basalt basalt basalt basalt basalt basalt basalt basalt basalt
// basalt
