// Unpacks Chromium, its libraries and its fonts into the directory TMPDIR.
import chromium, { inflate } from "@sparticuz/chromium";

await chromium.executablePath();
await inflate("node_modules/@sparticuz/chromium/bin/al2023.tar.br"); // NSS and Expat
