// crabline's gateway is not as lenient as Discord's. It has a path, and knows it only without the slash that clients write
// after a host. It takes the token only without the `Bot` that Twilight writes before it.
import http from "node:http";

const { emit } = http.Server.prototype;
http.Server.prototype.emit = function (name, request, ...rest) {
  if (name === "upgrade") request.url = request.url.replace("/gateway/?", "/gateway?");
  return emit.call(this, name, request, ...rest);
};
const { parse } = JSON;
JSON.parse = (...text) => {
  const read = parse(...text);
  if ([2, 6].includes(read?.op)) read.d.token = read.d.token.replace(/^Bot /, "");
  return read;
};
