"""The operations of the HTTP contract, as docs/openapi.json shows them: one file for each of api/routes.

In: schemas, shapes and the fields of a message. Out: an operation for each route, which the rows of api/routes name. An
example is a request that is sent in a test, and the answer that it gets.
"""
