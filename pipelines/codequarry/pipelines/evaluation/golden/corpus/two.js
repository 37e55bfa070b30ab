// amber amber amber amber amber amber amber amber amber amber amber amber
// amber amber amber amber basalt basalt basalt basalt basalt basalt basalt basalt
// basalt
