// amber basalt basalt basalt basalt cedar cedar cedar cedar
