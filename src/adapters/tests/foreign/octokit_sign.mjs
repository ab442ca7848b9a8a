// Prints the signature that GitHub's own library makes: SECRET BODY, in the folder of Node packages.
const { sign } = await import(`file://${process.cwd()}/node_modules/@octokit/webhooks-methods/dist-node/index.js`);
const [secret, body] = process.argv.slice(2);
console.log(await sign(secret, body));
