"""A service of asyncio waits for clients."""
# expect: healthy progressing
import asyncio
from kit import ready


async def main():
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    ready()
    await server.serve_forever()


asyncio.run(main())
